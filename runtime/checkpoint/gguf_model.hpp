// Models in GGUF files: read by way of a folder that stands for one, and written.

#pragma once

#include "runtime/checkpoint/gguf.hpp"
#include "runtime/checkpoint/hub_export.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>

namespace troupe::runtime {

/// The file of weights in a folder that stands for a GGUF file: a link to it.
inline constexpr const char* gguf_weights = "model.gguf";

/// Makes a model folder of Hugging Face of a GGUF file, in a cache: config.json, the tokenizer's
/// files and a link to the weights. Its name depends on the path and the metadata. Further calls
/// keep what is there. Throws input_error for a file that is malformed or not supported, and
/// io_error.
std::filesystem::path folder_of_gguf(const std::filesystem::path& file,
                                     const std::filesystem::path& cache);

/// The file that such a folder stands for; other paths unchanged.
std::filesystem::path gguf_behind(const std::filesystem::path& folder);

/// The type of matrices in a written file. Vectors, positions and routers stay F32.
/// q4_k: embedding and output layer are Q8_0. A matrix whose rows are not whole blocks has the next
/// of Q8_0 and F16 that fits.
block_type gguf_type_of(const std::string& tensor, const shape& extents, block_type wanted);

/// Writes a model with its tokenizer as one file. `what.type`, `parts` and `shard_bytes` are not
/// used. Holds at most one matrix in memory. `advance` receives the bytes written so far. Throws
/// input_error if GGUF or llama.cpp has no such model or tokenizer, or if `file` exists. Throws
/// io_error.
void write_gguf_model(const std::filesystem::path& file,
                      const hub_export& what,
                      block_type type,
                      const hub_source& read,
                      const std::function<void(std::uint64_t)>& advance = {});

/// The bytes of the elements that write_gguf_model will write.
std::uint64_t gguf_model_bytes(const hub_export& what, block_type type);

}  // namespace troupe::runtime
