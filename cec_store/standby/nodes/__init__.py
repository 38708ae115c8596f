"""Nodes that change places as primary and standbys: election, orders, and a node's life.

Nothing here is needed for safety: a takeover fences the log's writer, whoever decided it. The
election only says who tries first.
"""
