"""What one decent client notices while another one attacks the same broker."""
