from headrace.engine.basics.filters import Filter

class Watcher:
    next_seq: int
    num_pending: int
    filter: Filter
