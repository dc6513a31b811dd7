"""What sparkd remembers: intents, states and history, in one SQLite file that can never hold up the loop."""

from sparkd.journal.disk import UNREAD
from sparkd.journal.event import Event, as_json
from sparkd.journal.journal import Journal, JournalError
from sparkd.journal.lock import AlreadyOwned

__all__ = ["UNREAD", "AlreadyOwned", "Event", "Journal", "JournalError", "as_json"]
