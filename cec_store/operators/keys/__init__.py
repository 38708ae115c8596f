"""Group-by columns of any type to dense codes and back."""
