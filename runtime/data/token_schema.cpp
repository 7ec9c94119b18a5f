#include "runtime/data/token_schema.hpp"

namespace troupe::runtime {

batch_schema token_schema(std::int64_t S, bool documents) {
  batch_schema out;
  for (const auto* name : {"tokens", "labels", "mask", "positions"})
    out.tensors.push_back({.name = name,
                           .type = std::string_view(name) == "mask" ? dtype::f32 : dtype::i32,
                           .extents = {S},
                           .rows = 0});
  if (documents)
    out.documents_of = "tokens";
  return out;
}

bool token_row::has_room_for(std::int64_t S) const {
  const auto room = std::size_t(S);
  return tokens.size() == room && labels.size() == room && mask.size() == room
         && positions.size() == room;
}

}  // namespace troupe::runtime
