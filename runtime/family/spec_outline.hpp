// The outline of a model whose layers have attention, a feed-forward part and, in decoders,
// attention to another stream: from its spec.

#pragma once

#include "runtime/family/model_outline.hpp"
#include "runtime/model/model_spec.hpp"
#include "runtime/tensor/batch_schema.hpp"

namespace troupe::runtime {

/// Layers with one letter are alike. Rows are those per token of the model: a longer stream has
/// more. `texts`: texts of a sample, which do not see each other.
model_outline outline_of(const model_spec& model,
                         const batch_schema& schema,
                         bool drops,
                         std::int64_t texts = 1);

}  // namespace troupe::runtime
