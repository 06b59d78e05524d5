# Prints every option of an arangod configuration file, or with -v start=1 of a start line, as section.key=value.
{ sub(/\r$/, ""); sub(/^[ \t]+/, ""); sub(/[ \t]+$/, "") }
start {
  for (i = 1; i <= NF; i++) if ($i ~ /^--/) {
    key = substr($i, 3); value = "true"
    if (at = index(key, "=")) { value = substr(key, at + 1); key = substr(key, 1, at - 1) }
    else if (i < NF && $(i + 1) !~ /^--/) value = $(i + 1)
    gsub(/^["']|["']$/, "", value); print key "=" value
  }
  next
}
/^[#;]/ || /^$/ { next }
/^\[/ { section = $0; gsub(/[][ \t]/, "", section); section = section "."; next }
/^@/ { print "@include=" $0; next }
{
  at = index($0, "="); key = at ? substr($0, 1, at - 1) : $0; value = at ? substr($0, at + 1) : ""
  gsub(/[ \t]/, "", key); sub(/^[ \t]+/, "", value)
  print (key ~ /\./ ? key : section key) "=" value
}
