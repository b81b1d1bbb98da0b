class Monitor:
    def __init__(self, broker):
        self.broker = broker

    async def start(self):
        pass

    async def stop(self):
        pass

    address = ""
