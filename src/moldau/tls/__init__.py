"""Keys and certificates: from PEM, PKCS12 and JKS, as files or as text, to SSL contexts; from certificates to names."""
