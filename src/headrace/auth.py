"""For a function that admits clients, `authorization { python: "my_auth:check" }`: docs/security.md."""

from headrace.accounts.python_hook import Connection, User
from headrace.config.identity import Permissions, ResponseRule, SubjectRules

__all__ = ["Connection", "Permissions", "ResponseRule", "SubjectRules", "User"]
