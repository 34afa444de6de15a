"""One file per operator family of com.acme."""
