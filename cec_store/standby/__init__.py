"""Who goes on when a node has failed: the availability schemes, their cost, and their simulator.

Schemes, recovery types and Tables 1 to 8 are those of Hwang, Balazinska, Rasin, Çetintemel,
Stonebraker and Zdonik, *High-Availability Algorithms for Distributed Stream Processing* (2005).
"""
