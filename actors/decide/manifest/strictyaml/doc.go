// Package strictyaml reads one YAML or JSON document into an API type and
// names everything that is wrong with it by its field path.
//
// The API machinery's own strict decoders stop at the first mistake, or name a
// Go struct instead of the path a person can look for in a file. Here every
// mistake is collected: keys given twice, fields that the type does not have
// (with the nearest one it does have), values of the wrong type. The values
// mean what they mean to kubectl and the kubelet, which read YAML 1.1: an
// unquoted yes is a boolean, 010 is eight.
//
// Where a kubelet goes on without what is wrong (unknown fields, keys given twice,
// documents after the first), ParseForgiving and DecodeForgiving do too, and name
// it apart from the mistakes (docs/decisions/0068).
//
// The package is pure: it works on bytes and reads no file.
package strictyaml
