"""The release rules that wheels must pass, one module each."""
