// The bundler gathers imported styles in one file.
declare module "*.css";
