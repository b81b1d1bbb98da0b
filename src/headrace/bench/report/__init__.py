"""`headrace bench report`: Spark reads saved runs and the seeds' figures, and a page and a table come out.

Read in this order: `samples` (which files, and what is in them), `queries` (everything that is computed, in
Spark), `content` (the answers as plain records), then how they are shown: `words` (figures and names for
people), `plot` (scales, axes, one drawing), `charts` (which drawings there are), `page` (HTML), `markdown`.
"""
