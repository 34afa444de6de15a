"""What opshift needs to know about the domain com.acme."""
