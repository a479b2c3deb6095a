return {a = 5}
