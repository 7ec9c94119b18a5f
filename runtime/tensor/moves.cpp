#include "runtime/tensor/moves.hpp"

namespace troupe::runtime {

tensor taken(stream& on, const tensor& x) {
  if (on.queue() == nullptr || !x)
    return x;
  if (x.kind() == memory_kind::device && device_of(x.block()) == on.queue()->device())
    return {lend(x.block(), on.queue()), x.type(), x.extents()};
  if (x.kind() == memory_kind::device)  // once over the link, whatever reads it later
    return copy_of(on, {lend(x.block(), on.queue()), x.type(), x.extents()});
  tensor out(on.allocate(x.bytes()), x.type(), x.extents());
  on.write(out.raw(), x.raw(), x.bytes());
  return out;
}

bundle taken(stream& on, const bundle& x) {
  if (on.queue() == nullptr)
    return x;
  bundle out;
  for (const auto& [name, part] : x)
    out.add(name, taken(on, part));
  return out;
}

void publish(stream& on, const bundle& x) {
  if (on.queue() == nullptr)
    return;
  const auto written = on.mark();
  for (const auto& [name, part] : x)
    if (part)
      publish(part.block(), written);
}

tensor copy_of(stream& on, const tensor& x) {
  tensor out(on.allocate(x.bytes()), x.type(), x.extents());
  on.copy(out.raw(), x.raw(), x.bytes());
  return out;
}

}  // namespace troupe::runtime
