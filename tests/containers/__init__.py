"""A container image that Debian's, Ubuntu's and Python's package archives suffice to make."""
