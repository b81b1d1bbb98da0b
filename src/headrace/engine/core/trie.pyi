class InvalidSubject(ValueError): ...

class Subscription:
    subject: bytes
    queue: bytes | None
    sid: bytes
    delivered: int
    maximum: int
    @property
    def owner(self) -> object: ...
    def __init__(self, subject: bytes, queue: bytes | None, sid: bytes) -> None: ...

class Shadow(Subscription):
    interest: object
