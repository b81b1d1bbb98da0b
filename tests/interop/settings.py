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
authorization { user: derek, password: s3cr3t, timeout: 4 }
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

# One user per combination of rules: the sessions_permissions_*.py share one start of a server.
PERMISSION_RULES = """
authorization {
  default_permissions: { publish: "default.>", subscribe: ["default.>", "_INBOX.>"] }
  users = [
    { user: plain, password: word, permissions: {} }
    { user: default, password: word }
    { user: pub_allow, password: word, permissions: { publish: ["a.b", "c.*", "d.>", "*.e"] } }
    { user: pub_deny, password: word, permissions: { publish: { deny: ["a.b", "c.*", "d.>"] } } }
    {
      user: pub_both, password: word
      permissions: { pub: { allow: "a.>", deny: ["a.b.*", "a.secret"] } }
    }
    { user: pub_all, password: word, permissions: { publish: { allow: [] } } }
    { user: pub_wild, password: word, permissions: { publish: { allow: ">", deny: "*.x" } } }
    { user: importer, password: word, permissions: { import: "in.*", export: "out.*" } }
    { user: sub_allow, password: word, permissions: { subscribe: ["a.b", "c.*", "d.>", "*.e"] } }
    { user: sub_deny, password: word, permissions: { subscribe: { deny: ["a.b", "c.*", "d.>"] } } }
    {
      user: sub_both, password: word
      permissions: { sub: { allow: ["a.>", "_INBOX.>"], deny: ["a.b.*", "a.secret"] } }
    }
    { user: sub_all, password: word, permissions: { subscribe: { allow: [] } } }
    {
      user: queue_allow, password: word
      permissions: {
        subscribe: ["foo", "foo v1", "bar v1", "baz v.*", "qux *", "bux v.>", "w.* v1", "w.> v2"]
      }
    }
    {
      user: queue_deny, password: word
      permissions: { subscribe: { deny: ["foo q1", "bar v.*", "x.* q2", "baz *", "y", "z.a"] } }
    }
    { user: answers, password: word, permissions: { subscribe: "service", allow_responses: true } }
    {
      user: answers_two, password: word
      permissions: { subscribe: "service", allow_responses: { max: 2, expires: "1m" } }
    }
    {
      user: answers_always, password: word
      permissions: { subscribe: "service", publish_allow_responses: { max: -1, expires: "-1s" } }
    }
    {
      user: answers_late, password: word
      permissions: { subscribe: "service", allow_responses: { max: 5, expires: "1ns" } }
    }
    {
      user: answers_some, password: word
      permissions: { publish: { allow: "ok.*", deny: "no.*" }, allow_responses: { max_msgs: 1 } }
    }
    {
      user: answers_not, password: word
      permissions: { subscribe: "service", allow_responses: false }
    }
    { user: standard, password: word, allowed_connection_types: [standard, "WebSocket"] }
    { user: browser, password: word, allowed_connection_types: "WEBSOCKET" }
  ]
}
no_auth_user: sub_both
"""

ACCOUNT_PERMISSIONS = """
accounts {
  A {
    users: [ { user: a }, { user: b, password: word, permissions: { publish: "b.>" } } ]
    default_permissions: { publish: "a.>", subscribe: { deny: "a.secret" } }
  }
}
no_auth_user: a
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

WEBSOCKET = """
websocket { listen: "127.0.0.1:-1", no_tls: true }
max_payload: 8192
"""

WEBSOCKET_COMPRESSED = """
websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true, headers { X-Served-By: nats } }
max_payload: 8192
"""

WEBSOCKET_SAME_ORIGIN = """
websocket { listen: "127.0.0.1:-1", no_tls: true, same_origin: true }
"""

WEBSOCKET_ORIGINS = """
websocket {
  listen: "127.0.0.1:-1", no_tls: true
  allowed_origins: ["http://shop.example", "https://Shop.example:8443", "http://[::1]:8080"]
}
"""

WEBSOCKET_USERS = """
authorization {
  users = [
    { user: guest, password: word }
    { user: boss, password: word }
  ]
}
websocket {
  listen: "127.0.0.1:-1", no_tls: true
  user_cookie: who, pass_cookie: secret, token_cookie: ticket
  no_auth_user: guest
}
"""

WEBSOCKET_PASSWORD = """
authorization { token: "t0k3n" }
websocket {
  listen: "127.0.0.1:-1", no_tls: true
  user_cookie: who, pass_cookie: secret, token_cookie: ticket
  authorization { user: derek, password: s3cr3t, timeout: 30 }
}
"""

WEBSOCKET_TOKEN = """
authorization { token: "t0k3n" }
websocket { listen: "127.0.0.1:-1", no_tls: true, token_cookie: ticket }
"""

WEBSOCKET_IMPATIENT = """
websocket { listen: "127.0.0.1:-1", no_tls: true, ping_interval: "150ms" }
"""
SEVERAL_ACCOUNTS = """
accounts {
  A { users: [ { user: a, password: x }, { user: a2, password: x } ] }
  B { users: [ { user: b, password: x } ] }
  LIMITED {
    users: [ { user: limited, password: x } ]
    limits: { max_connections: 1, max_subscriptions: 2, max_payload: 5 }
  }
  $SYS { users: [ { user: s, password: x } ] }
}
authorization { users: [ { user: g, password: x }, { user: g2, password: x } ] }
"""

ACCOUNTS_NO_AUTH_USER = """
accounts { A { users: [ { user: a, password: x } ] }, B { users: [ { user: b, password: x } ] } }
no_auth_user: a
"""

SYSTEM_ACCOUNT_ONLY = """
accounts { $SYS { users: [ { user: s, password: x } ] } }
"""

NAMED_SYSTEM_ACCOUNT = """
system_account: OPS
accounts { OPS { users: [ { user: s, password: x } ] } }
"""

ACCOUNTS_WITHOUT_USERS = """
accounts: [A, B]
"""

IMPORTS = """
accounts {
  A {
    users: [ { user: a, password: x } ]
    exports: [
      { stream: "open.>" }, { stream: "pub.*" }, { stream: lit }, { stream: "swap.*.*" }, { stream: both }
      { stream: private, accounts: [B] }, { stream: "for.*", account_token_position: 2 }, { stream: hidden }
      { service: one }, { service: moved }, { service: "rpc.*" }, { service: "nf.*.*" }, { service: shared }
      { service: secret, accounts: [B] }, { service: "mine.*", account_token_position: 2 }, { service: both }
      { service: "map.*" }, { service: many, response_type: stream }, { service: chunks, response: chunked }
    ]
    mappings: { mapped: "mapped.to", "map.*": "mapped.$1" }
  }
  B {
    users: [ { user: b, password: x } ]
    imports: [
      { stream: { account: A, subject: "open.>" } }
      { stream: { account: A, subject: "pub.*" }, prefix: pre }
      { stream: { account: A, subject: lit }, to: to.x }
      { stream: { account: A, subject: "swap.*.*" }, to: "swap.$2.$1" }
      { stream: { account: A, subject: both }, prefix: from }
      { stream: { account: A, subject: private } }
      { stream: { account: A, subject: for.B } }
      { service: { account: A, subject: one } }
      { service: { account: A, subject: moved }, to: local.moved }
      { service: { account: A, subject: "rpc.*" } }
      { service: { account: A, subject: "nf.*.*" }, to: "fn.$2.$1" }
      { service: { account: A, subject: shared }, share: true }
      { service: { account: A, subject: secret } }
      { service: { account: A, subject: mine.B } }
      { service: { account: A, subject: both } }
      { service: { account: A, subject: "map.*" } }
      { service: { account: A, subject: many } }
      { service: { account: A, subject: chunks } }
    ]
  }
}
"""

MAPPINGS = """
mappings {
  plain: mapped
  "one.*": "single.$1"
  "two.*.*": "swapped.$2.$1"
  "three.*.*": "swapped.{{wildcard(2)}}.{{wildcard(1)}}"
  "rest.>": "all.>"
  "part.*.*": "p.{{partition(10,1,2)}}.$1"
  "split.*": "s.{{split(1,-)}}"
  "slice.*": "s.{{slicefromleft(1,2)}}"
  "left.*": "s.{{left(1,2)}}"
  "const.*": "constant"
  "whole.weight": [ { destination: heavy, weight: 100% } ]
  lost: [ { destination: lost, weight: 0 } ]
  "stay.*": [ { destination: "gone.$1", weight: 0% } ]
  clustered: [ { destination: elsewhere, weight: 100, cluster: east } ]
  "chain.first": "plain"
  reserved: "$NRG.x"
}
"""
