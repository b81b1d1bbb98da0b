from headrace.bench.clients.load import Load

class StreamLoad(Load):
    refusals: int
    duplicates: int
    def expect_sequences(self, first: int, count: int) -> None: ...
    def add_stream_publisher(
        self,
        descriptor: int,
        subject: bytes,
        inbox: bytes,
        payload: bytes,
        messages: int,
        in_flight: int,
        message_id: bytes = b"",
        expects: bytes = b"",
        first: int = 1,
        keys: int = 0,
    ) -> int: ...
    def add_getter(
        self,
        descriptor: int,
        subject: bytes,
        inbox: bytes,
        size: int,
        requests: int,
        in_flight: int,
        keys: int,
    ) -> int: ...
    def add_puller(
        self,
        descriptor: int,
        stream: str,
        consumer: str,
        inbox: bytes,
        batch: int,
        acknowledges: bool,
        first: int,
        expected: int,
    ) -> int: ...
    def add_sharing_puller(
        self, descriptor: int, stream: str, consumer: str, inbox: bytes, batch: int, acknowledges: bool
    ) -> int: ...
    @property
    def first_refusal(self) -> str: ...
