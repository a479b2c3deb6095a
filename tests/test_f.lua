require "nosuch"
