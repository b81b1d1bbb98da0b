"""HTTP/1.1 as a server speaks it: what monitoring, the console and publishing over HTTP are built on."""
