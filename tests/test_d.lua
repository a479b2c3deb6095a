local t = require "mare.test" return {a = {function() end, timout = 3}, b = {timeout=3}, c = function() t.eq(1) end, d=function() t.skip() end, e = function() os.exit(0) end }
