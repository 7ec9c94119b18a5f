// A rank's part of a checkpoint, which becomes two files with the same bytes in any process.

#pragma once

#include "messages/checkpoint/snapshot.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/tensor/tensor.hpp"
#include "runtime/transport/transport.hpp"

#include <string>
#include <vector>

namespace troupe::actors {

using told_shards = std::vector<runtime::tensor_shard<runtime::ticket>>;
using shards_in_memory = std::vector<runtime::tensor_shard<runtime::tensor>>;

struct rank_state_to_write {
  shards_in_memory parameters, moments;
};

/// Throws as transport::redeem_all.
rank_state_to_write redeemed(runtime::transport& from,
                             const told_shards& parameters,
                             const told_shards& moments,
                             const runtime::cancel_token& until);

/// Arguments for write_shard_file; `x` must outlive the result.
std::vector<runtime::shard_to_write> to_write(const shards_in_memory& x);

/// The report about a file to the writer of the manifest, and the record that it makes of it. Names
/// and boxes come from the snapshot. Throws broken_promise (SHARDS-2) when the number of shards
/// differs.
messages::written_file told(const runtime::shard_record& x);
runtime::shard_record record_of(std::string file,
                                const messages::written_file& x,
                                const told_shards& what);

}  // namespace troupe::actors
