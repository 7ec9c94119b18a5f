#include "actors/shard_writer/rank_files.hpp"

#include "runtime/core/error.hpp"

#include <utility>

namespace troupe::actors {
namespace {

constexpr auto stored_as = runtime::stored_type::f32;

shards_in_memory in_memory(runtime::transport& from,
                           const told_shards& told,
                           const runtime::cancel_token& until) {
  std::vector<runtime::ticket> tickets;
  for (const auto& x : told)
    tickets.push_back(x.elements);
  auto tensors = from.redeem_all(tickets, {.until = until});
  shards_in_memory out;
  for (std::size_t i = 0; i < told.size(); ++i)
    out.push_back(told[i].with(std::move(tensors[i])));
  return out;
}

}  // namespace

rank_state_to_write redeemed(runtime::transport& from,
                             const told_shards& parameters,
                             const told_shards& moments,
                             const runtime::cancel_token& until) {
  return {in_memory(from, parameters, until), in_memory(from, moments, until)};
}

std::vector<runtime::shard_to_write> to_write(const shards_in_memory& x) {
  std::vector<runtime::shard_to_write> out;
  for (const auto& one : x)
    out.push_back(one.with(runtime::elements_to_write{stored_as, one.elements.raw()}));
  return out;
}

messages::written_file told(const runtime::shard_record& x) {
  messages::written_file out{.bytes = x.bytes, .sha256 = x.sha256};
  for (const auto& piece : x.pieces)
    out.xxh3.push_back(piece.elements.xxh3);
  return out;
}

runtime::shard_record record_of(std::string file,
                                const messages::written_file& x,
                                const told_shards& what) {
  runtime::ensure(x.xxh3.size() == what.size(),
                  "SHARDS-2: the acknowledgement of a file covers exactly its requested shards");
  runtime::shard_record out{std::move(file), x.bytes, x.sha256, {}};
  for (std::size_t i = 0; i < what.size(); ++i)
    out.pieces.push_back(what[i].with(runtime::stored_elements{stored_as, x.xxh3[i]}));
  return out;
}

}  // namespace troupe::actors
