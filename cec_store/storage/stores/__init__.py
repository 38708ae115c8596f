"""Trees of objects under one URL, on local disks and in remote stores."""
