error "setup failed"
