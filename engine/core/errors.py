"""What a user can cause. The text says the value, the rule and the way out, and is shown as it is."""


class UserError(ValueError):
    """Wrong input, with a sentence that helps."""


class MissingAsset(UserError):
    """A pretrained network is not on this machine yet."""


class DamagedFile(UserError):
    """A file that is not what its name says, or was cut off."""


class Mismatch(UserError):
    """Two things that do not belong together: a delta and another base, a vault and another network."""


class Busy(UserError):
    """Another process holds the studio's record. Nothing is wrong with what was asked; asking again later helps."""


class Stopped(UserError):
    """Asked to end before there was anything to keep. Nothing has failed."""


class DiskFull(UserError):
    """There is no room to write. What was computed so far can be written later."""
