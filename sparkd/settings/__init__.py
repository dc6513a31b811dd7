"""The YAML files of a configuration directory -> frozen values, or every problem and what to write instead."""

from __future__ import annotations

from sparkd.settings.deployment import digest, merge_profile
from sparkd.settings.files import Config, check, load, load_deployment

__all__ = ["Config", "check", "digest", "load", "load_deployment", "merge_profile"]
