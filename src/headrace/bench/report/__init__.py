"""`headrace bench report`: Spark turns saved runs and published figures into a page and a table.

Read in this order: `samples` (the files), `queries` (everything that is computed, in Spark), `content` (the
results as plain records), then how they are shown: `words` (figures and names as text), `plot` (scales, axes,
one drawing), `charts` (which drawings there are), `page` (HTML), `markdown`.
"""
