"""A soak: a server, clients in other processes, faults, and a checker that knows every acknowledged message.

    make soak MINUTES=60

The supervisor (`supervisor.py`) runs the server on a small disk (`disk.py`, `server.py`) and does things to
it (`faults.py`). Clients (`actors.py` lists them) run in processes of their own (`worker.py`). Each owns its
streams: nobody else publishes to them or removes from them, so its ledger (`ledger.py`) can know what must be
there, what must not, and what nobody can know: a publish whose answer was lost may be stored or not, until a
check has looked. After every fault the clients pause, read everything back (`reading.py`) and compare. What
is wrong becomes a finding (`findings.py`). Samples and findings end in one page (`page.py`, `charts.py`).

Every random decision comes from one seed, which is printed. Timing is the machine's, so a seed repeats the
decisions, not the run.
"""
