#include "runtime/tensor/moves.hpp"

#include <cstdint>
#include <vector>

namespace troupe::runtime {

tensor taken(stream& stream, const tensor& x) {
  if (stream.queue() == nullptr || !x)
    return x;
  if (x.kind() == memory_kind::device && device_of(x.block()) == stream.queue()->device())
    return {lend(x.block(), stream.queue()), x.type(), x.extents()};
  if (x.kind() == memory_kind::device)  // copied once, however often it is read
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

void add_bytes(
    digester& to, const stream& by, memory_kind where, const void* from, std::size_t bytes) {
  if (where == memory_kind::host) {
    to.add(from, bytes);
    return;
  }
  std::vector<std::byte> here(bytes);
  by.read(here.data(), from, bytes);
  to.add(here.data(), bytes);
}

void flip_bit(stream& by, float* x) {
  std::uint32_t bits = 0;
  by.read(&bits, x, sizeof bits);
  bits ^= 1U << 20;
  by.write(x, &bits, sizeof bits);
}

}  // namespace troupe::runtime
