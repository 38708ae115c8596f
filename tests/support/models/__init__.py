"""What is right, computed in plain Python, and the inputs that it is compared on."""
