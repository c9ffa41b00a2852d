"""The transaction coordinator: who owns a transactional id, what its transaction has touched, and how it ends."""
