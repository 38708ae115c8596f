"""Continue an operator when its node has failed: availability schemes and their costs.

Schemes, recovery types and Tables 1 to 8 are those of Hwang, Balazinska, Rasin, Çetintemel,
Stonebraker and Zdonik, *High-Availability Algorithms for Distributed Stream Processing* (2005).
"""
