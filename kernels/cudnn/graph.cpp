#include "kernels/cudnn/graph.hpp"

#include <algorithm>

namespace troupe::kernels::cudnn {

layout contiguous(cudnnDataType_t type, const four& extents) {
  layout out{type, extents, {}};
  std::int64_t stride = 1;
  for (std::size_t d = 4; d-- > 0;) {
    out.strides[d] = stride;
    stride *= extents[d];
  }
  return out;
}

graph::tensor graph::add(const layout& layout, bool stored, bool constant) {
  descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto number = std::int64_t(tensors_.size()) + 1;
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, number);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, layout.type);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, layout.alignment);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, {layout.extents.begin(), layout.extents.end()});
  made.set(CUDNN_ATTR_TENSOR_STRIDES, {layout.strides.begin(), layout.strides.end()});
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, !stored && !constant);
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, constant);
  made.finish("describing a tensor to cuDNN");
  layouts_.push_back(layout);
  tensors_.push_back(std::move(made));
  if (stored)
    stored_.push_back(number);
  if (constant)
    constants_.push_back(number);
  return tensors_.size() - 1;
}

graph::tensor graph::stored(const layout& layout) {
  return add(layout, true, false);
}
graph::tensor graph::constant(float value) {
  values_.push_back(value);
  return add(contiguous(CUDNN_DATA_FLOAT, {1, 1, 1, 1}), false, true);
}

void graph::matmul(tensor a, tensor b, tensor out) {
  auto& product = parts_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  product.finish("describing a product to cuDNN");
  auto& made = operations_.emplace_back(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensors_[a]);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensors_[b]);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensors_[out]);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
  made.finish("describing a product to cuDNN");
}
graph::tensor graph::matmul(tensor a, tensor b, const layout& out) {
  const auto made = passing(out);
  matmul(a, b, made);
  return made;
}

void graph::reduce(cudnnReduceTensorOp_t operation, tensor x, tensor out) {
  auto& part = parts_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  part.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  part.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operation);
  part.finish("describing a reduction to cuDNN");
  auto& made = operations_.emplace_back(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensors_[x]);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensors_[out]);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, part);
  made.finish("describing a reduction to cuDNN");
}
graph::tensor graph::reduce(cudnnReduceTensorOp_t operation, tensor x, const layout& out) {
  const auto made = passing(out);
  reduce(operation, x, made);
  return made;
}

void graph::pointwise(const point& operation,
                      tensor x,
                      std::optional<tensor> b,
                      std::optional<tensor> where,
                      tensor out) {
  auto& part = parts_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  part.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &operation.mode);
  part.set(CUDNN_ATTR_POINTWISE_MATH_PREC, operation.compute);
  if (operation.axis)
    part.set(CUDNN_ATTR_POINTWISE_AXIS, *operation.axis);
  part.finish("describing an elementwise operation to cuDNN");
  auto& made = operations_.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, part);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors_[x]);
  if (b)
    made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensors_[*b]);
  if (where)
    made.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, tensors_[*where]);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors_[out]);
  made.finish("describing an elementwise operation to cuDNN");
}
void graph::pointwise(cudnnPointwiseMode_t mode, tensor x, std::optional<tensor> b, tensor out) {
  pointwise(point{mode}, x, b, {}, out);
}
graph::tensor graph::pointwise(cudnnPointwiseMode_t mode,
                               tensor x,
                               std::optional<tensor> b,
                               const layout& out) {
  const auto made = passing(out);
  pointwise(mode, x, b, made);
  return made;
}
graph::tensor graph::index(tensor like, std::int64_t dimension) {
  const auto made = passing({CUDNN_DATA_INT32, of(like).extents, of(like).strides});
  pointwise({CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, dimension}, like, {}, {}, made);
  return made;
}
graph::tensor graph::compare(cudnnPointwiseMode_t mode, tensor a, tensor b) {
  const auto made = passing({CUDNN_DATA_BOOLEAN, of(a).extents, of(a).strides});
  pointwise({mode, CUDNN_DATA_BOOLEAN}, a, b, {}, made);
  return made;
}
graph::tensor graph::select(tensor x, tensor other, tensor where) {
  const auto made = passing(of(x));
  pointwise({CUDNN_POINTWISE_BINARY_SELECT}, x, other, where, made);
  return made;
}

graph::tensor graph::reshape(tensor x, const layout& out) {
  const auto to = passing(out);
  auto& made = operations_.emplace_back(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensors_[x]);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensors_[to]);
  made.finish("describing a reshape to cuDNN");
  return to;
}

}  // namespace troupe::kernels::cudnn
