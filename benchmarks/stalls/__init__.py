"""How long does everybody else wait while one client asks for something big? `python -m benchmarks.stalls`"""
