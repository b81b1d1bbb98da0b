"""Server settings that the sessions run under. Each distinct text costs a process per server."""

# The password "secret" in the form that nats-server's `mkpasswd` writes, at the lowest cost.
BCRYPT_SECRET = "$2b$04$A/W77RBfseti1OmFmWkC..kdsRvPm8TLr0fxk2OD0JW8EOltgqnOu"

DEFAULT = ""

LIMITS = """
max_payload: 64
max_control_line: 256
max_subscriptions: 3
max_subscription_tokens: 4
"""

LONG_LINES = "max_control_line: 8192"

FEW_CONNECTIONS = "max_connections: 2"

NO_HEADERS = "no_header_support: true"

USER_AND_PASSWORD = """
authorization { user: derek, password: s3cr3t }
"""

SHORT_AUTH_TIMEOUT = """
authorization { user: derek, password: s3cr3t, timeout: 0.4 }
"""

TOKEN = """
authorization { token: "t0k3n" }
"""

BCRYPT = f"""
authorization {{ user: derek, password: "{BCRYPT_SECRET}" }}
"""

USERS = f"""
authorization {{
  users = [
    {{ user: plain, password: word }}
    {{ user: hashed, password: "{BCRYPT_SECRET}" }}
  ]
}}
"""

NO_AUTH_USER = """
authorization {
  users = [
    { user: guest, password: word }
    { user: boss, password: word }
  ]
}
no_auth_user: guest
"""

PERMISSIONS = """
authorization {
  users = [
    { user: plain, password: word }
    { user: guest, password: word, permissions: { publish: "guest.>", subscribe: "guest.>" } }
    {
      user: limited, password: word
      permissions: {
        publish: { allow: ["open.>", "reply.*"], deny: "open.secret" }
        subscribe: {
          allow: ["open.>", "shared workers", "_INBOX.>"]
          deny: ["open.secret", "open.q hidden"]
        }
      }
    }
    {
      user: responder, password: word
      permissions: {
        publish: { deny: ">" }
        subscribe: service
        allow_responses: { max: 2, expires: "1m" }
      }
    }
    {
      user: nobody, password: word
      permissions: { publish: { deny: ">" }, subscribe: { deny: ">" } }
    }
  ]
}
no_auth_user: guest
"""

ACCOUNTS = """
accounts {
  ONE {
    users: [ { user: one, password: word } ]
    limits: { max_connections: 2, max_subscriptions: 2, max_payload: 16 }
  }
  TWO { users: [ { user: two, password: word } ] }
}
"""

IMPATIENT = """
ping_interval: "150ms"
ping_max: 2
"""

SMALL_PENDING = """
max_payload: 65536
max_pending: 262144
write_deadline: "1s"
"""

# The store directory comes from the command line. Limits are given, so that both servers have the same.
JETSTREAM = """
jetstream { max_mem: 1G, max_file: 8G }
"""

JETSTREAM_ACCOUNT = """
jetstream { max_mem: 1G, max_file: 8G, limits { max_ack_pending: 100, duplicate_window: "1m" } }
"""

JETSTREAM_DOMAIN = """
jetstream { max_mem: 1G, max_file: 8G, domain: hub }
"""

JETSTREAM_LENIENT = """
jetstream { max_mem: 1G, max_file: 8G, strict: false }
"""

JETSTREAM_SMALL = """
jetstream { max_mem: 10000, max_file: 20000 }
"""

# One account instead of the global one, with limits that sessions can reach.
JETSTREAM_ONE_ACCOUNT = """
jetstream { max_mem: 1G, max_file: 8G, domain: hub }
no_auth_user: foo
accounts {
  A {
    users: [ { user: foo }, { user: boss, password: word } ]
    jetstream {
      max_mem: 5000, max_file: 10000, max_streams: 3, max_consumers: 2, max_ack_pending: 100
      memory_max_stream_bytes: 2048, store_max_stream_bytes: 4096, max_stream_bytes: true
    }
  }
}
"""

JETSTREAM_TIGHT_ACCOUNT = """
jetstream { max_mem: 1G, max_file: 8G }
accounts {
  A { users: [ { user: foo } ], jetstream: { max_mem: 300, max_file: 500 } }
}
no_auth_user: foo
"""

JETSTREAM_UNLIMITED_ACCOUNT = """
jetstream { max_mem: 1G, max_file: 8G }
accounts { A { users: [ { user: foo } ], jetstream: enabled } }
no_auth_user: foo
"""

JETSTREAM_NOT_FOR_ACCOUNT = """
jetstream { max_mem: 1G, max_file: 8G }
accounts { A { users: [ { user: foo } ] } }
no_auth_user: foo
"""
