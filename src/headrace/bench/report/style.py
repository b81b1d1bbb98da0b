"""The page's style sheet: light and dark, from a phone to a wide screen."""

STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --ink: #1d2329; --soft: #5c6670; --line: #d9dde1;
  --c0: #0b62c4; --c1: #c85a00; --c2: #1d8348; --c3: #8e3bb0; --c4: #b3264a; --c5: #57606a; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181c; --ink: #e6e9ec; --soft: #9aa5b0; --line: #323a42;
    --c0: #6fb3ff; --c1: #ffa657; --c2: #5fd38d; --c3: #d6a0f0; --c4: #ff8aa5; --c5: #b3bcc6; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 84rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; margin: .5rem 0 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .2rem; border-top: 1px solid var(--line); padding-top: 1rem; }
p { margin: .4rem 0; max-width: 46rem; }
.soft, figcaption small { color: var(--soft); }
.warning { border-left: 4px solid var(--c1); padding-left: .7rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr));
  gap: 1.2rem; margin-top: .8rem; }
figure { margin: 0; }
figcaption { font-weight: 600; font-size: .9rem; }
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--soft); }
.grid { stroke: var(--line); stroke-width: .7; }
.base { stroke: var(--soft); stroke-width: 1; }
line.reference { stroke: var(--soft); stroke-width: 1.3; stroke-dasharray: 5 4; }
line.mark { stroke: var(--c4); stroke-width: 1.3; }
svg text.mark { fill: var(--c4); font-weight: 600; }
text.reference, text.name { paint-order: stroke;
  stroke: var(--page); stroke-width: 4px; stroke-linejoin: round; }
svg text.name { font-weight: 600; fill: var(--colour); }
.c0 { --colour: var(--c0); } .c1 { --colour: var(--c1); } .c2 { --colour: var(--c2); }
.c3 { --colour: var(--c3); } .c4 { --colour: var(--c4); } .c5 { --colour: var(--c5); }
.series polyline { fill: none; stroke: var(--colour); stroke-width: 2; stroke-linejoin: round; }
.series circle { fill: var(--colour); }
.series circle.hit { fill: transparent; }
.series .spread { stroke: var(--colour); stroke-width: 5; stroke-opacity: .3; stroke-linecap: round; }
.series g:hover circle:not(.hit) { stroke: var(--colour); stroke-width: 4; stroke-opacity: .4; }
.scroll { overflow-x: auto; margin-top: .6rem; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
.figure { text-align: right; }
@media (max-width: 40rem) { td:first-child { white-space: normal; min-width: 9rem; } }
summary { cursor: pointer; margin-top: .6rem; }
"""
