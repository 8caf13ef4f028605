"""Writes everything that a wheel is made from: manifest, constants, generated C++, bill of materials."""
