"""The front door of the repository: what stands behind ``make up``, ``make test`` and the others.

Only the standard library is used here, as this runs before the virtual environment exists.
"""
