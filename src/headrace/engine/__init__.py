"""The compiled data plane. A leaf: it calls back, it imports no room."""
