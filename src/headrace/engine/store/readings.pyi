from typing import final

@final
class Stored:
    seq: int
    time: int
    subject: bytes
    headers: bytes
    payload: bytes
