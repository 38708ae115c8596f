"""What operators read: sources that can be read again, merged into one order."""
