#include "runtime/tensor/moves.hpp"

namespace troupe::runtime {

tensor taken(stream& stream, const tensor& x) {
  if (stream.queue() == nullptr || !x)
    return x;
  if (x.kind() == memory_kind::device && device_of(x.block()) == stream.queue()->device())
    return {lend(x.block(), stream.queue()), x.type(), x.extents()};
  if (x.kind() == memory_kind::device)  // once over the link, whatever reads it later
    return copy_of(stream, {lend(x.block(), stream.queue()), x.type(), x.extents()});
  tensor out(stream.allocate(x.bytes()), x.type(), x.extents());
  stream.write(out.raw(), x.raw(), x.bytes());
  return out;
}

bundle taken(stream& stream, const bundle& x) {
  if (stream.queue() == nullptr)
    return x;
  bundle out;
  for (const auto& [name, part] : x)
    out.add(name, taken(stream, part));
  return out;
}

void publish(stream& stream, const bundle& x) {
  if (stream.queue() == nullptr)
    return;
  const auto written = stream.mark();
  for (const auto& [name, part] : x)
    if (part)
      publish(part.block(), written);
}

tensor copy_of(stream& stream, const tensor& x) {
  tensor out(stream.allocate(x.bytes()), x.type(), x.extents());
  stream.copy(out.raw(), x.raw(), x.bytes());
  return out;
}

}  // namespace troupe::runtime
