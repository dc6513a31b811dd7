"""What goes on beside the loop: checks, questions to engines, comparisons, records. It reads nodes; it changes nothing on them."""
