"""`make demo`: the main job, end to end, and a reconciliation at its end.

    feed ──► server, stream ORDERS ──► pipeline (examples/shop/shop.yml, on Spark) ──► table of orders
                                              │     ▲ killed in the middle             its dead letters
                                              │     │                                  table of revenue
                                              └─────┴──► server, stream ALERTS

Server, pipeline and demo are processes of their own. To read it, from simple to hard:

    orders.py       what the shop sells: all orders of a run follow from a seed, and what must come of them
    feed.py         publishes them, each at its time, and waits for every acknowledgement
    processes.py    the pipeline as a process that can be killed with everything that it started
    watch.py        looks at streams and table from outside while all this runs
    latency.py      from the table's log: how long orders took into the table
    live.py         queries the orders of this second, in the table and still in the stream, meanwhile
    reconcile.py    compares what is there at the end with what must be there
    summary.py      the result in figures; charts.py and page.py show it as a page, screen.py on the terminal
    job.py          the flow: start, feed, kill, restart, settle, stop
    __main__.py     the command line
"""
