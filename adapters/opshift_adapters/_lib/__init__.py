"""Code that several families share; no verdict is declared here."""
