"""What people see of an answer: tables, rows in every format, JSON documents, reports."""
